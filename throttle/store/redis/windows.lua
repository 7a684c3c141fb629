-- Counts in windows of a second, from which traffic is computed. A window is an array of
-- ten buckets of 100 ms with six numbers each: thousandths of operations, microseconds
-- and thousandths of rows of all processes, then of those without a share. The sums of all
-- ten come after them.
local BUCKET, SLOTS, SIZE = 100000, 10, 6
local KEPT = 10 -- seconds

local function open(base)
    local windows = {}
    return function(second)
        local window = windows[second]
        if not window then
            local raw = redis.call('GET', base .. string.format('%.0f', second))
            if raw then
                window = cmsgpack.unpack(raw)
            else
                window = {}
                for i = 1, (SLOTS + 1) * SIZE do window[i] = 0 end
            end
            windows[second] = window
        end
        return window
    end, windows
end

-- Adds what was counted in a bucket (they are numbered from 1970), so many times.
local function add(total, window, bucket, times)
    local second = math.floor(bucket / SLOTS)
    local counts, at = window(second), (bucket - second * SLOTS) * SIZE
    for i = 1, SIZE do total[i] = total[i] + times * counts[at + i] end
end

local function greater(most, other, times)
    for i = 1, SIZE do
        local one = other[i] * times
        if one > most[i] then most[i] = one end
    end
end

-- 80, 15 and 5 % of the last three complete seconds. The last reports of a second come
-- up to 100 ms after it: until then the reading before counts too, if it is greater.
local function weighted(window)
    local second = math.floor(now / SECOND)
    local readings = now - second * SECOND < BUCKET and 2 or 1
    local sums, most = {}, {0, 0, 0, 0, 0, 0}
    for i = 1, readings + 2 do sums[i] = window(second - i) end
    for first = 1, readings do
        local total = {}
        local newest, middle, oldest = sums[first], sums[first + 1], sums[first + 2]
        for i = 1, SIZE do
            local at = SLOTS * SIZE + i
            total[i] = newest[at] * 80 + middle[at] * 15 + oldest[at] * 5
        end
        greater(most, total, 0.01)
    end
    return most
end

-- The greatest of the last second and the rate of the last 300 ms, each ending with the
-- last complete bucket, for which reports still come, or with the one before it.
local function fast(window)
    local running = math.floor(now / BUCKET)
    local ten, three, most = {0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0}
    for bucket = running - 11, running - 2 do add(ten, window, bucket, 1) end
    for bucket = running - 4, running - 2 do add(three, window, bucket, 1) end
    for last = running - 2, running - 1 do
        if last > running - 2 then
            add(ten, window, last, 1)
            add(ten, window, last - 10, -1)
            add(three, window, last, 1)
            add(three, window, last - 3, -1)
        end
        greater(most, ten, 1)
        greater(most, three, 10 / 3)
    end
    return most
end

-- What is in force of a limit, in millionths, and why: the second signal's word, and a
-- person's.
local function in_force(...)
    local factor, why = 1000000, {}
    for _, key in ipairs({...}) do
        local lowered = redis.call('GET', key)
        if lowered then
            lowered = cmsgpack.unpack(lowered)
            if now < lowered[3] then
                factor = math.floor(factor * lowered[1] / 1000000)
                if lowered[2] ~= '' then why[#why + 1] = lowered[2] end
            end
        end
    end
    return factor, table.concat(why, '; ')
end
