"""Hora starts, watches and ends distributed training from one job file."""

__version__ = "0.1.0"
