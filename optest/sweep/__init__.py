"""Running many op tests so that none can spoil another: plan, isolate, shard, resume."""
