"""The template `documents`: the text of pdf, docx, html, md and txt, in chunks."""
