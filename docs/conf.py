"""The site: MyST Markdown, built by Sphinx. Nothing in it is fetched from elsewhere when a page is read."""

project = "respevents"
copyright = "the respevents authors"  # noqa: A001 - Sphinx's name
html_title = "respevents"

extensions = ["myst_parser"]
exclude_patterns = ["_build"]
suppress_warnings: list[str] = []

# Every heading is an anchor by GitHub's rule, so that the same links work on the site, in a repository browser and in
# tests/test_docs.py; with -n and -W a link or an anchor that does not exist stops the build.
myst_heading_anchors = 4
myst_links_external_new_tab = False
myst_all_links_external = False

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["respevents.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_use_index = False
pygments_style = "default"
# Furo's own dark style underlines the names of modules, as if they were links.
pygments_dark_style = "github-dark"
# Typographic quotes and dashes would turn `--port` in a help text into a dash.
smartquotes = False
