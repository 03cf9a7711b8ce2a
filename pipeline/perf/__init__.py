"""What a job costs on a machine: step time at any TP degree, memory, and resharding.

Below the stages: it reads scenarios and gives numbers, and knows no log and no lake.
"""
