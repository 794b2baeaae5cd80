"""The question-answering room's older import names."""
