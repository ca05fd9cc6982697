"""Settings of Sphinx, which make docs builds the site with."""

project = "penstock"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "penstock"
html_copy_source = False
myst_heading_anchors = 4
exclude_patterns = ["requirements.txt"]
suppress_warnings = ["misc.highlighting_failure"]  # SQL with templates
