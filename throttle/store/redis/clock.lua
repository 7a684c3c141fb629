-- The store's clock, before every script: it never goes back.
--
-- Redis' own clock may be stepped back. Counted on by it, a second would be filled a
-- second time and read as twice the traffic. So what it was stepped back by is added
-- from then on. All times are whole microseconds.
--
-- KEYS[1]: the clock. ARGV[1]: the time, for tests; empty: Redis' own.
local SECOND = 1000000
local latest, ahead, born = 0, 0, 0 -- read last, added to Redis' clock, the store's birth
local kept = redis.call('GET', KEYS[1])
if kept then
    kept = cmsgpack.unpack(kept)
    latest, ahead, born = kept[1], kept[2], kept[3]
end
local now
if ARGV[1] == '' then
    local time = redis.call('TIME')
    now = time[1] * SECOND + time[2]
else
    now = tonumber(ARGV[1])
end
now = now + ahead
if now < latest then
    ahead = ahead + (latest - now)
    now = latest
end
if now - latest >= 600000 then
    -- All were silent, or Redis came back without its data, or its clock was
    -- stepped forward: a process may be forgotten, or soon, that still trusts an answer.
    born = now
end
-- Called by scripts that write. It outlives all that is timed by it: a signal's end, by
-- a clock that forgot how far it was stepped back, may be hours away.
local function tick()
    redis.call('SET', KEYS[1], cmsgpack.pack({now, ahead, born}), 'PX', 7200000)
end
