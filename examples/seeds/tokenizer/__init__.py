"""The trainer's older import names."""
