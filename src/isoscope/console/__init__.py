"""Options, printing and tables that the commands of the instrument and of studies share."""
