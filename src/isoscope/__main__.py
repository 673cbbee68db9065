"""`python -m isoscope`."""

from isoscope.cli import main

main()
