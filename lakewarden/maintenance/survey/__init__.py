"""A survey of Delta tables that anybody wrote: what is there, what is damaged, what each operation would do and cost.

It lists and reads, and writes nothing into the places that it looks at. Begin with `table_survey`.
"""
