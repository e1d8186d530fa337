"""The paper's figures and tables: `python -m experiments NAME`."""

from experiments.reproduction.command import main
from tightgp.estimators import compilation

if __name__ == "__main__":
    compilation.switch_on()
    main()
