"""How the fleet is shown: the page, the rows of `status --all`, and figures for Prometheus; and the forms that links fill."""
