"""The command `bertcore`: what a finished model is used with, one module for each command."""
