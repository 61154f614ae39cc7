"""The names that metrics and predictions have for what every task is scored with; all others are simple baselines."""

SYSTEMS = MAJORITY, RANDOM_WEIGHTS, PRETRAINED_WEIGHTS = "majority", "random_initialisation", "pretrained"
