-- Returns 1 if the holder is the watcher of the database for the next microseconds.
--
-- KEYS: clock, watcher. ARGV: time, holder, microseconds.
tick()
local watcher = redis.call('GET', KEYS[2])
if watcher then
    watcher = cmsgpack.unpack(watcher)
    if watcher[1] ~= ARGV[2] and now < watcher[2] then return 0 end
end
local until_then = now + tonumber(ARGV[3])
redis.call('SET', KEYS[2], cmsgpack.pack({ARGV[2], until_then}), 'PX', 3600000)
return 1
