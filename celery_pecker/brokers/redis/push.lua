-- All messages of one batch are on their lists, or none is; a second time adds nothing.
-- Answers how many were pushed, or, if the token is taken, the fingerprint of what was
-- pushed under it.
--
-- KEYS  1: the token of this batch; 2..n+1: lists to push to; then: lists to expire
-- ARGV  1: seconds the token lives; 2: fingerprint of the batch; 3: n;
--       then for each list its number of messages and the messages;
--       then for each list to expire its milliseconds
--
-- Nothing may fail after the first write, since Redis takes no write back: so the
-- kind of each list is looked at before.
local lists = tonumber(ARGV[3])
for i = 2, lists + 1 do
  local kind = redis.call('TYPE', KEYS[i]).ok
  if kind ~= 'none' and kind ~= 'list' then
    return redis.error_reply('WRONGTYPE key ' .. KEYS[i] .. ' holds a ' .. kind .. ', not a list')
  end
end
if not redis.call('SET', KEYS[1], ARGV[2], 'NX', 'EX', ARGV[1]) then
  return redis.call('GET', KEYS[1])
end
local at = 4
local pushed = 0
for i = 2, lists + 1 do
  local count = tonumber(ARGV[at])
  redis.call('LPUSH', KEYS[i], unpack(ARGV, at + 1, at + count))
  at = at + count + 1
  pushed = pushed + count
end
for i = lists + 2, #KEYS do
  redis.call('PEXPIRE', KEYS[i], ARGV[at])
  at = at + 1
end
return pushed
