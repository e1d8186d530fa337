"""Install the wheel of a folder into an empty environment, and use it there without the checkout.

python tools/try_wheel.py dist
"""

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path


def main() -> None:
    """Install, ask for the version, explain a message, run the demo; stop at the first that fails."""
    (wheel,) = Path(sys.argv[1]).resolve().glob("*.whl")
    version = wheel.name.split("-")[1]
    with tempfile.TemporaryDirectory() as folder:
        venv.create(f"{folder}/env", with_pip=True)
        programs = Path(folder, "env", "bin")
        environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}

        def run(*command: str) -> str:
            print("$", *command, flush=True)
            path = str(programs / command[0])
            ran = subprocess.run([path, *command[1:]], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
            if ran.returncode:
                raise SystemExit(f"{' '.join(command)} ended with {ran.returncode}\n{ran.stdout}")
            return ran.stdout

        run("pip", "install", "--quiet", "--disable-pip-version-check", str(wheel))
        said = run("tightgp", "--version").strip()
        if said != version:
            raise SystemExit(f"tightgp --version says {said}, the wheel is {version}")
        home = run("python", "-c", "import tightgp; print(tightgp.__version__, tightgp.__file__)")
        if folder not in home:
            raise SystemExit(f"not the installed one: {home}")
        run("tightgp", "explain", "nan-rows")
        print(run("tightgp", "demo"))
        report = Path(folder, "demo", "flats", "report.html")
        if not report.exists() or not report.stat().st_size:
            raise SystemExit("the demo wrote no report")
    print(f"{wheel.name}: installed and used without the checkout")


if __name__ == "__main__":
    main()
