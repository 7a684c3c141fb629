-- Moves held messages to their parking queues, as they were sent: each once, and only
-- those that are still ours. Safe to repeat after a lost answer.
--
-- KEYS: index of delivery stamps, hash of messages, parking queues...
-- ARGV: how many stamps were asked for and not answered, those stamps; for each message:
--       tag, stamp up to which it is ours, index of its queue among KEYS, what follows
--       the message in the hash
-- Returns 1 for each message that was moved, 0 for one that is not ours.
local answers, asked, last = {}, {}, tonumber(ARGV[1]) + 1
for i = 2, last do
    asked[tonumber(ARGV[i])] = true
end
for i = last + 1, #ARGV, 4 do
    local tag, till, tail = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 3]
    local stamp = tonumber(redis.call('ZSCORE', KEYS[1], tag))
    local ours = stamp and (stamp <= till or asked[stamp])
    local kept = redis.call('HGET', KEYS[2], tag)
    local moved = 0
    -- Delivered anew with the same tag, it bears a later stamp: another worker has it.
    if ours and kept and string.sub(kept, -#tail) == tail then
        -- kombu keeps '[message, exchange, routing key]': the message is cut out as
        -- it is, for to decode and encode it in Lua would change numbers and lists.
        redis.call('LPUSH', KEYS[tonumber(ARGV[i + 2])], string.sub(kept, 2, -#tail - 1))
        redis.call('ZREM', KEYS[1], tag)
        redis.call('HDEL', KEYS[2], tag)
        moved = 1
    end
    answers[#answers + 1] = moved
end
return answers
