-- Counts in windows of a second, told from which is traffic. A window is an array of
-- ten buckets of 100 ms with six numbers each: thousandths of operations, microseconds
-- and thousandths of rows of everybody, then of those who hold no share.
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
                for i = 1, SLOTS * SIZE do window[i] = 0 end
            end
            windows[second] = window
        end
        return window
    end, windows
end

-- The six numbers of the buckets first … last (counted from 1970).
local function sum(window, first, last)
    local total = {0, 0, 0, 0, 0, 0}
    for bucket = first, last do
        local second = math.floor(bucket / SLOTS)
        local at = (bucket - second * SLOTS) * SIZE
        local counts = window(second)
        for i = 1, SIZE do total[i] = total[i] + counts[at + i] end
    end
    return total
end

local function greater(a, b)
    for i = 1, SIZE do if b[i] > a[i] then a[i] = b[i] end end
    return a
end

local function by_weights(window, second)
    local newest = sum(window, (second - 1) * SLOTS, second * SLOTS - 1)
    local middle = sum(window, (second - 2) * SLOTS, (second - 1) * SLOTS - 1)
    local oldest = sum(window, (second - 3) * SLOTS, (second - 2) * SLOTS - 1)
    local total = {}
    for i = 1, SIZE do
        total[i] = (newest[i] * 80 + middle[i] * 15 + oldest[i] * 5) / 100
    end
    return total
end

-- 80, 15 and 5 % of the last three complete seconds. The last reports of a second come
-- up to 100 ms after it: until then the reading before counts too, if it is greater.
local function weighted(window)
    local second = math.floor(now / SECOND)
    local total = by_weights(window, second)
    if now - second * SECOND < BUCKET then
        greater(total, by_weights(window, second - 1))
    end
    return total
end

-- The greatest of the last second and the rate of the last 300 ms, each ending with
-- the running bucket or with one of the two before it, which reports still come for.
local function fast(window)
    local bucket = math.floor(now / BUCKET)
    local total = {0, 0, 0, 0, 0, 0}
    for last = bucket - 2, bucket do
        local three = sum(window, last - 2, last)
        for i = 1, SIZE do three[i] = three[i] * 10 / 3 end
        greater(greater(total, sum(window, last - 9, last)), three)
    end
    return total
end
