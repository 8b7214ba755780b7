"""The laws that every format keeps, as a test class, and Hypothesis strategies; shipped for plug-ins."""
