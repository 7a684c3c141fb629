-- Counts a report, gives out a share of each database that the reporter holds one of,
-- and returns the time, then for each database its traffic and its share.
--
-- KEYS: clock, databases, number of the holder's last report; then for each database
--       its shares, what its holders report, its signal, the next turn, a limit that a person set.
-- ARGV: time, holder, whether it heard the last answer, estimator, number of the report;
--       then for each database: name, where its windows are, how many samples, for each
--       sample its age, its span, operations, seconds and rows; then what the holder
--       tells people (empty: it holds no share), and if so its want (in millionths of
--       the limit), the limits of operations and seconds (0: none), and what the run
--       costs that waits for its turn (in millionths of the limit, 0: none does).
local WHOLE = 1000000 -- shares are millionths of the limit, so that sums are exact
local FORGOTTEN = SECOND -- after which a silent holder's share is free
local LEARNING = 400000 -- after the store's birth: no process trusts an older answer any more
local EXPIRY = 10000 -- milliseconds
local LONGEST = 10 * SECOND -- that a run's turn may take
local holder, heard, estimator = ARGV[2], ARGV[3] == '1', ARGV[4]
local at = 5

local function take()
    at = at + 1
    return ARGV[at]
end

local function number()
    return tonumber(take())
end

local function add_to(counts, place, part)
    counts[place] = counts[place] + part
end

-- Spreads a sample evenly over the time that it was counted in.
local function count(window, changed, stop, span, amounts, outside)
    local start, counted = stop - span, {0, 0, 0}
    local earliest = math.floor(now / SECOND) - KEPT + 1
    local bucket = math.floor(start / BUCKET)
    repeat
        local edge = (bucket + 1) * BUCKET
        local second = math.floor(bucket / SLOTS)
        local base = (bucket - second * SLOTS) * SIZE
        local counts = second >= earliest and window(second)
        for i = 1, 3 do
            local by_now = amounts[i]
            if edge < stop then
                by_now = math.floor(amounts[i] * (edge - start) / span)
            end
            local part = by_now - counted[i]
            counted[i] = by_now
            if counts then
                add_to(counts, base + i, part)
                add_to(counts, SLOTS * SIZE + i, part)
                if outside then
                    add_to(counts, base + 3 + i, part)
                    add_to(counts, SLOTS * SIZE + 3 + i, part)
                end
                changed[second] = true
            end
        end
        bucket = bucket + 1
    until edge >= stop
end

-- What is left of the limit for tasks: less what comes from outside, in the scarcer of
-- its dimensions.
local function capacity(factor, outside, limits)
    if now - born < LEARNING then return 0 end
    local part = 0
    for i = 1, 2 do
        if limits[i] > 0 then part = math.max(part, outside[3 + i] / limits[i]) end
    end
    return math.max(math.floor(factor - part * WHOLE), 0)
end

-- Whether a run may start that is larger than a second of its worker's share: one after
-- another, at the pace at which the limit pays for them.
local function turn(key, window, part, all, limits)
    if part <= 0 or all <= 0 then return 0 end
    local total, used = {0, 0, 0, 0, 0, 0}, 0
    local running = math.floor(now / BUCKET)
    for bucket = running - SLOTS + 1, running do add(total, window, bucket, 1) end
    for i = 1, 2 do
        if limits[i] > 0 then
            used = math.max(used, (total[i] - total[3 + i]) / limits[i])
        end
    end
    if used * SECOND > all then return 0 end
    local free = tonumber(redis.call('GET', key) or 0)
    if now < free and free <= now + LONGEST then return 0 end
    if free > now then free = 0 end
    local took = math.min(math.floor(part * SECOND / all), LONGEST)
    local next_one = math.max(free, now - BUCKET) + took
    redis.call('SET', key, string.format('%.0f', next_one), 'PX', 20000)
    return 1
end

-- The asker's fair part: wants are served from the smallest up (max-min); what is left
-- over is lent out in equal parts.
local function fair(all, want, wants, wanted)
    if wanted <= all then return want + math.floor((all - wanted) / #wants) end
    if want <= math.floor(all / #wants) then return want end
    table.sort(wants)
    local left = all
    for i, one in ipairs(wants) do
        local level = math.floor(left / (#wants - i + 1))
        if one > level then return math.min(want, level) end
        left = left - one
    end
end

-- Five words for each holder: id, want, granted, believed, heard of. Believed is the most
-- that it may still think it has: an answer that grants less may have been lost.
local function share(keys, holds, all, want)
    local raw = redis.call('GET', keys.shares)
    local known = raw and cmsgpack.unpack(raw) or {}
    local live, wants, wanted, others, before = {}, {}, want, 0, 0
    for i = 1, #known, 5 do
        local id = known[i]
        if now - known[i + 4] >= FORGOTTEN or (id == holder and not holds) then
            redis.call('HDEL', keys.reports, id)
        elseif id == holder then
            before = heard and known[i + 2] or math.max(known[i + 2], known[i + 3])
        else
            local n = #live
            live[n + 1], live[n + 2], live[n + 3] = id, known[i + 1], known[i + 2]
            live[n + 4], live[n + 5] = known[i + 3], known[i + 4]
            wants[#wants + 1] = known[i + 1]
            wanted = wanted + known[i + 1]
            others = others + known[i + 3]
        end
    end
    local granted = 0
    if holds then
        wants[#wants + 1] = want
        granted = math.max(math.min(fair(all, want, wants, wanted), all - others), 0)
        local n = #live
        live[n + 1], live[n + 2], live[n + 3] = holder, want, granted
        live[n + 4], live[n + 5] = math.max(granted, before), now
    end
    if holds or #live < #known then
        redis.call('SET', keys.shares, cmsgpack.pack(live), 'PX', EXPIRY)
    end
    return granted, #live / 5
end

tick()
local fresh = ARGV[5] == '0'
if not fresh then
    local last = tonumber(redis.call('GET', KEYS[3]) or 0)
    fresh = last < tonumber(ARGV[5])
    -- A report that was long on its way must not take the number back: the next one
    -- could still be repeated, and would count twice.
    local number = fresh and ARGV[5] or string.format('%.0f', last)
    redis.call('SET', KEYS[3], number, 'PX', 60000)
end
local answer = {string.format('%.0f', now)}
local expired = string.format('%.0f', now - KEPT * SECOND)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', expired)
for key = 4, #KEYS, 5 do
    local keys = {shares = KEYS[key], reports = KEYS[key + 1], signal = KEYS[key + 2]}
    local name, base, samples = take(), take(), {}
    for i = 1, number() do
        samples[i] = {number(), number(), {number(), number(), number()}}
    end
    local telling = take()
    local holds = telling ~= ''
    local want, limits, waits = 0, {0, 0}, 0
    if holds then want, limits, waits = number(), {number(), number()}, number() end

    local window, windows = open(base)
    local changed = {}
    if fresh then
        for _, one in ipairs(samples) do
            count(window, changed, now - one[1], one[2], one[3], not holds)
        end
    end
    for second in pairs(changed) do
        local place = base .. string.format('%.0f', second)
        redis.call('SET', place, cmsgpack.pack(windows[second]), 'PX', EXPIRY)
    end

    local traffic = {weighted = weighted(window), fast = fast(window)}
    local factor = in_force(keys.signal, KEYS[key + 4])
    local all = 0
    if holds then all = capacity(factor, traffic[estimator], limits) end
    local starts = turn(KEYS[key + 3], window, waits, all, limits)
    local granted, holders = share(keys, holds, all, want)
    if holds then
        redis.call('HSET', keys.reports, holder, telling)
        redis.call('PEXPIRE', keys.reports, EXPIRY)
    end
    redis.call('ZADD', KEYS[2], string.format('%.0f', now), name)

    local words = {granted, factor, holders, starts}
    for _, estimate in ipairs({traffic.weighted, traffic.fast}) do
        for i = 1, SIZE do words[#words + 1] = string.format('%.17g', estimate[i]) end
    end
    answer[#answer + 1] = table.concat(words, ' ')
end
redis.call('PEXPIRE', KEYS[2], 60000)
return answer
