-- The limit in force is so many millionths of the limit, for so many microseconds.
--
-- KEYS: clock, signal (or what a person set), databases. ARGV: time, millionths, why, microseconds, database.
tick()
local lowered = {tonumber(ARGV[2]), ARGV[3], now + tonumber(ARGV[4])}
local kept = math.max(3600000, math.ceil(tonumber(ARGV[4]) / 1000))
redis.call('SET', KEYS[2], cmsgpack.pack(lowered), 'PX', string.format('%.0f', kept))
redis.call('ZADD', KEYS[3], string.format('%.0f', now), ARGV[5])
redis.call('PEXPIRE', KEYS[3], 60000)
return 1
