"""`densecore attribute`: which op's arithmetic makes how much of a run's difference?

    command.py    options
    study.py      the runs: which there are, what is kept of them, resuming
    child.py      one run, in a process of its own
    observer.py   what an unmodified script shows: losses, parameters, what leaves the device
    result.py     rows; table.py, page.py: as a table, as a page
"""
