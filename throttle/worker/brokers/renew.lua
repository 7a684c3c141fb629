-- Says that we are still at work on held messages, as far as they are ours.
--
-- KEYS: index of delivery stamps
-- ARGV: stamp from now on; for each message: tag, stamp up to which it is ours
-- Returns 1 for each message that is ours, 0 for one that is not.
local answers = {}
for i = 2, #ARGV, 2 do
    local stamp = redis.call('ZSCORE', KEYS[1], ARGV[i])
    local ours = 0
    if stamp and tonumber(stamp) <= tonumber(ARGV[i + 1]) then
        redis.call('ZADD', KEYS[1], ARGV[1], ARGV[i])
        ours = 1
    end
    answers[#answers + 1] = ours
end
return answers
