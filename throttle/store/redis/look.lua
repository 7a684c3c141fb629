-- Returns all that is known, and changes nothing: the time, then for each database its
-- name, factor and traffic, its signal, and for each holder id, share and what it reported.
--
-- KEYS: clock, databases. ARGV: time, where the keys of databases begin.
local FORGOTTEN, KEEPING = SECOND, KEPT * SECOND
local answer = {string.format('%.0f', now)}
local since = string.format('(%.0f', now - KEEPING)

local function view(name)
    local base = ARGV[2] .. name .. ':'
    local window = open(base)
    local factor, why = in_force(base .. 'signal', base .. 'adjusted')
    local words = {factor}
    for _, estimate in ipairs({weighted(window), fast(window)}) do
        for i = 1, SIZE do words[#words + 1] = string.format('%.17g', estimate[i]) end
    end
    local entry = {name, table.concat(words, ' '), why}
    local raw = redis.call('GET', base .. 'shares')
    local known = raw and cmsgpack.unpack(raw) or {}
    for i = 1, #known, 5 do
        if now - known[i + 4] < FORGOTTEN then
            entry[#entry + 1] = known[i]
            entry[#entry + 1] = known[i + 2]
            entry[#entry + 1] = redis.call('HGET', base .. 'reports', known[i]) or ''
        end
    end
    return entry
end

for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], since, '+inf')) do
    if name ~= '' then answer[#answer + 1] = view(name) end -- that one was a check's
end
return answer
