-- Returns all that is known, and changes nothing: the time, then for each database its
-- name, factor and traffic, its signal, and for each holder id, share and what it told.
--
-- KEYS: clock, databases. ARGV: time, where the keys of databases begin.
local FORGOTTEN, KEEPING = SECOND, KEPT * SECOND
local answer = {string.format('%.0f', now)}
local since = string.format('(%.0f', now - KEEPING)
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], since, '+inf')) do
    if name ~= '' then
    local base = ARGV[2] .. name .. ':'
    local window = open(base)
    local factor, why = 1000000, ''
    local signal = redis.call('GET', base .. 'signal')
    if signal then
        signal = cmsgpack.unpack(signal)
        if now < signal[3] then factor, why = signal[1], signal[2] end
    end
    local said = {factor}
    for _, estimate in ipairs({weighted(window), fast(window)}) do
        for i = 1, SIZE do said[#said + 1] = string.format('%.17g', estimate[i]) end
    end
    local found = {name, table.concat(said, ' '), why}
    local raw = redis.call('GET', base .. 'shares')
    for _, one in ipairs(raw and cmsgpack.unpack(raw) or {}) do
        if now - one[5] < FORGOTTEN then
            found[#found + 1] = one[1]
            found[#found + 1] = one[3]
            found[#found + 1] = redis.call('HGET', base .. 'told', one[1]) or ''
        end
    end
    answer[#answer + 1] = found
    end
end
return answer
