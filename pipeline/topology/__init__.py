"""Which scale-up domain each node lies in: topology files, and how they fit a cluster.

It stands below `config` and is no stage, because the number of nodes and domains that a scenario is checked
against comes from here; every stage may read it too.
"""
