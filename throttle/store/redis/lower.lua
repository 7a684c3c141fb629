-- The limit in force is so many millionths of the limit, for so many microseconds.
--
-- KEYS: clock, signal, databases. ARGV: time, millionths, why, microseconds, database.
tick()
local said = {tonumber(ARGV[2]), ARGV[3], now + tonumber(ARGV[4])}
redis.call('SET', KEYS[2], cmsgpack.pack(said), 'PX', 3600000)
redis.call('ZADD', KEYS[3], string.format('%.0f', now), ARGV[5])
redis.call('PEXPIRE', KEYS[3], 60000)
return 1
