"""The paper's figures and tables: `python -m experiments NAME`."""

from experiments.reproduction.command import main

if __name__ == "__main__":
    main()
