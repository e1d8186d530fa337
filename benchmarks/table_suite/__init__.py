"""Real tables of 300 to 54 000 rows: tightgp with its defaults beside boosted trees and other Gaussian processes.

`sets` writes the tables, `worker` fits one method to one of them in a fresh process, `__main__` runs all of them and
goes on where it stopped, `drawing` makes the table and the figure of docs/tables.md.
"""
