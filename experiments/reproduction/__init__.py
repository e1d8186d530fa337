"""The paper's figures and tables, from one command each: `python -m experiments NAME`."""
