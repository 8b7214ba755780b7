"""Conversion of datasets: what is asked, who goes where, what is lost, how it is verified, resumed and published."""
