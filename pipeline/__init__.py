"""goodput-replay: from a failure log to the training goodput that each resilience policy keeps.

The floors, top to bottom; a floor imports only from floors below it:

    cli, commands                              thin
    ingest | timelines | replay | report       the four stages; they meet in files, never by import
    synth                                      failures from rates
    lake                                       Parquet, manifest, catalog, SQL
    config                                     a scenario
    topology                                   which node lies in which domain
    schema, hostlist                           columns, units, meanings; lists of hosts
    discovery                                  pieces found by folder
    errors | units | resources
"""

__version__ = "0.1.0"
