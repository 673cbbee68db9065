"""From statistics to estimates: clouds, spectra, neighbours, intervals and tests, and the declaration of a metric."""
