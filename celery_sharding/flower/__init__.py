"""The page *Sharded jobs* in Flower."""

PAGES = ()
