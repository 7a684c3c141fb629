-- Says that we are still at work on held messages, as far as they are ours.
--
-- KEYS: index of delivery stamps
-- ARGV: how many stamps were asked for and not answered, those stamps, the last of them
--       the one from now on; for each message: tag, stamp up to which it is ours
-- Returns 1 for each message that is ours, 0 for one that is not.
local answers, asked, last = {}, {}, tonumber(ARGV[1]) + 1
for i = 2, last do
    asked[tonumber(ARGV[i])] = true
end
for i = last + 1, #ARGV, 2 do
    local stamp = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[i]))
    local ours = 0
    if stamp and (stamp <= tonumber(ARGV[i + 1]) or asked[stamp]) then
        redis.call('ZADD', KEYS[1], ARGV[last], ARGV[i])
        ours = 1
    end
    answers[#answers + 1] = ours
end
return answers
