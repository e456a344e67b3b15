"""What differs between the places where this deployment runs. The warehouse and its Spark session as resources of Dagster are the
library's: `lake` and `spark`, in every op and asset."""
