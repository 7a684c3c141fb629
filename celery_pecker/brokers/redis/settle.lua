-- Settles one held message: forgets it, and gives it back to its queues if there are
-- any among the keys. Returns 1 if that was done, 0 if there was nothing to do.
--
-- KEYS: index of delivery stamps, hash of messages, queues...
-- ARGV: tag, stamp of the loss, whether the message was recorded, LPUSH or RPUSH, message
local stamp = redis.call('ZSCORE', KEYS[1], ARGV[1])
if stamp and tonumber(stamp) > tonumber(ARGV[2]) then
    return 0 -- delivered anew since we lost it: another worker has it
end
redis.call('ZREM', KEYS[1], ARGV[1])
if redis.call('HDEL', KEYS[2], ARGV[1]) == 0 and ARGV[3] == '1' then
    return 0 -- settled by another, or Redis lost its data
end
for i = 3, #KEYS do
    redis.call(ARGV[4], KEYS[i], ARGV[5])
end
return 1
