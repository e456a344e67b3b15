"""Dynamic tables (FLIP-188): their options, their buckets, and their one streaming writer."""
