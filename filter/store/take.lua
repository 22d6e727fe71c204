--[[
store/take.lua - one decision over all tiers of a request, counted in Redis.

First every tier is looked at without writing; then either all that admit are
charged or none. store/rate.c does the same sums in C, and tests/contract holds the
two together: change both.

KEYS     one key a tier, all different.
ARGV[1]  now in microseconds, or '' for the clock of Redis.
then for each key six:
         algorithm  0 sliding_window, 1 token_bucket
         count      events per window
         window     in microseconds, below 2^48
         capacity   of the bucket; count for windows
         cost       of this request, at least 1
         shadow     1: changes no outcome, charged only if it admits and all pass

Reply    integers: admitted (1: every tier that is no shadow admits), then for each
         key: admitted, remaining, wait_us (until this cost fits; 0 when admitted),
         reset_us (until the state equals never seen). Remaining and reset are as the
         decision leaves them.
Errors   a key of another type, or holding what this script has not written: nothing
         is then charged anywhere.

A refusal writes nothing, but for stamps further ahead of the clock than a window (or
a full bucket takes to drain): they are moved so that the newest is now, whatever the
outcome. Less far ahead, the newest stamp stands for now. Each key's lifetime is set
in the call that writes it: until its state equals never seen.

Numbers stay below 2^53, so they are exact, if capacity * window does for a bucket.
Needs Redis 6.0 (replication by effect). Not for a cluster: the keys of one request
lie in several slots.

State of a sliding window, integers big-endian:
         'w1' base:8 newest:8 first:4 n:4, then a ring of offsets from base, 6 each
         of a token bucket:
         'b1' stamp:8 used:8 unit:8, used in 1/unit of a token as of stamp
--]]
local call, pack, unpack = redis.call, struct.pack, struct.unpack
local floor, ceil = math.floor, math.ceil

local HEAD = 26 -- bytes before the ring, and of a bucket
local SMALL = 64 -- so many events are read and written whole, as cheap as one
local PEEK = HEAD + 6 * SMALL
local EXACT = 2 ^ 53
local OFFSETS = 2 ^ 48
local LOG_MAX = 2 ^ 24

local now
if ARGV[1] == '' then
	local time = call('TIME')
	now = time[1] * 1000000 + time[2]
else
	now = tonumber(ARGV[1])
end

local function lifetime(ends)
	-- One more: Redis counts from the start of the millisecond before our clock.
	return math.max(ceil((ends - now) / 1000), 0) + 1
end

-- The moment of event i, from 0 for the oldest.
local function window_at(t, i)
	local p = HEAD + 6 * ((t.first + i) % t.room)
	if p + 6 <= #t.state then
		return t.base + unpack('>I6', t.state, p + 1)
	end
	return t.base + unpack('>I6', call('GETRANGE', t.key, p, p + 5))
end

-- The bytes of the live events, oldest first.
local function window_live(t)
	local p, n = (t.first + t.expired) % t.room, t.live
	local function piece(from, to)
		if HEAD + 6 * to <= #t.state then
			return t.state:sub(HEAD + 6 * from + 1, HEAD + 6 * to)
		end
		return call('GETRANGE', t.key, HEAD + 6 * from, HEAD + 6 * to - 1)
	end
	if p + n <= t.room then
		return piece(p, p + n)
	end
	return piece(p, t.room) .. piece(0, p + n - t.room)
end

local function window_look(t)
	t.at, t.live = now, 0
	if t.count > LOG_MAX or t.window >= OFFSETS then
		return 'is asked for a window beyond what is counted'
	end
	if t.state ~= '' then
		if #t.state < HEAD then
			return 'holds a broken window'
		end
		local size = #t.state < PEEK and #t.state or call('STRLEN', t.key)
		local _, base, newest, first, n = unpack('>c2i8i8I4I4', t.state)
		t.room, t.base, t.newest, t.first, t.n = (size - HEAD) / 6, base, newest, first, n
		if t.room % 1 ~= 0 or n < 1 or n > t.room or first >= t.room or newest < base
			or base <= -EXACT or newest >= EXACT then
			return 'holds a broken window'
		end
		local ahead = newest - now
		if ahead > t.window then
			t.base, t.newest, t.mend = base - ahead, now, true
		elseif ahead > 0 then
			t.at = newest
		end
		-- Gallop to the first that counts: usually few have gone since the last charge.
		local gone = t.at - t.window
		if t.newest <= gone then
			t.expired = n
		else
			local lo, hi, probe = 0, n - 1, 0
			while probe < hi and window_at(t, probe) <= gone do
				lo = probe + 1
				probe = 2 * probe + 1
			end
			hi = math.min(hi, probe)
			while lo < hi do
				local mid = floor((lo + hi) / 2)
				if window_at(t, mid) <= gone then
					lo = mid + 1
				else
					hi = mid
				end
			end
			t.expired = lo
		end
		t.live = n - t.expired
	end
	t.left = math.max(t.count - t.live, 0)
	t.reset = t.live > 0 and t.newest + t.window - t.at or 0
	t.admits = t.cost <= t.left
	if t.admits then
		t.wait = 0
	elseif t.cost > t.count then
		t.wait = t.window
	else
		local last = t.expired + t.live + t.cost - t.count - 1
		t.wait = window_at(t, last) + t.window - t.at
	end
end

local function window_head(t)
	return pack('>c2i8i8I4I4', 'w1', t.base, t.newest, t.first, t.n)
end

local function window_mend(t)
	call('SETRANGE', t.key, 0, window_head(t))
	call('PEXPIRE', t.key, lifetime(t.newest + t.window))
end

-- Writes the state anew, with as much room as is good for it.
local function window_rewrite(t, need)
	local events, room = '', need
	if t.live == 0 then
		t.base = t.at
	else
		events = window_live(t)
		if t.at - t.base >= OFFSETS then
			local anew, base = {}, t.base + unpack('>I6', events)
			for i = 1, t.live do
				anew[i] = pack('>I6', t.base + unpack('>I6', events, 6 * i - 5) - base)
			end
			events, t.base = table.concat(anew), base
		end
	end
	if need > SMALL then
		room = math.min(need + floor(need / 8), t.count)
	end
	t.newest, t.first, t.n = t.at, 0, need
	call('SET', t.key, window_head(t) .. events
		.. pack('>I6', t.at - t.base):rep(t.cost) .. ('\0'):rep(6 * (room - need)),
		'PX', lifetime(t.at + t.window))
end

local function window_charge(t)
	local need = t.live + t.cost
	t.left, t.reset = t.left - t.cost, t.window
	if need <= SMALL or not t.room or need > t.room
		or t.room > need + floor(need / 4) + 16 or t.at - t.base >= OFFSETS then
		return window_rewrite(t, need)
	end
	local p = (t.first + t.n) % t.room
	local n = math.min(t.cost, t.room - p)
	local event = pack('>I6', t.at - t.base)
	call('SETRANGE', t.key, HEAD + 6 * p, event:rep(n))
	if n < t.cost then
		call('SETRANGE', t.key, HEAD, event:rep(t.cost - n))
	end
	t.newest, t.first, t.n = t.at, (t.first + t.expired) % t.room, need
	window_mend(t)
end

-- In a bucket a / b is exact when rounded to a whole number: a is below 2^53, so the
-- quotient lies further from the next whole number than a double can err.
local function bucket_look(t)
	local capacity, used, stamp = t.capacity * t.window, 0, now
	if capacity >= EXACT then
		return 'is asked for a bucket beyond what is counted'
	end
	t.at = now
	if t.state ~= '' then
		local unit, _
		if #t.state ~= HEAD then
			return 'holds a broken bucket'
		end
		_, stamp, used, unit = unpack('>c2i8i8i8', t.state)
		if stamp <= -EXACT or stamp >= EXACT or used < 1 or used >= EXACT or unit < 1
			or unit >= EXACT then
			return 'holds a broken bucket'
		end
		t.used, t.unit = used, unit
		if unit ~= t.window then
			used = math.min(ceil(used / unit), floor((EXACT - 1) / t.window)) * t.window
		end
		t.ends = stamp + ceil(used / t.count)
		local ahead = stamp - now
		if ahead > ceil(capacity / t.count) then
			stamp, t.ends, t.mend = now, t.ends - ahead, true
		elseif ahead > 0 then
			t.at = stamp
		end
		-- Compared before it is multiplied, so the product stays below used.
		local elapsed = t.at - stamp
		used = elapsed >= ceil(used / t.count) and 0 or used - elapsed * t.count
	end
	local units, free = 0, capacity - used
	t.admits = t.cost <= t.capacity
	if t.admits then
		units = t.cost * t.window
		t.admits = units <= free
		t.wait = t.admits and 0 or ceil((units - free) / t.count)
	else
		t.wait = ceil(capacity / t.count)
	end
	t.left = math.max(floor(free / t.window), 0)
	t.reset = ceil(used / t.count)
	t.after = used + units
end

local function bucket_mend(t)
	call('SET', t.key, pack('>c2i8i8i8', 'b1', t.at, t.used, t.unit), 'PX', lifetime(t.ends))
end

local function bucket_charge(t)
	t.left, t.reset = t.left - t.cost, ceil(t.after / t.count)
	t.used, t.unit, t.ends = t.after, t.window, t.at + t.reset
	bucket_mend(t)
end

local algorithms = {
	['0'] = { 'w1', window_look, window_charge, window_mend },
	['1'] = { 'b1', bucket_look, bucket_charge, bucket_mend },
}

if #ARGV ~= 1 + 6 * #KEYS then
	return redis.error_reply('BADSTATE wrong number of arguments')
end

local tiers, seen, pass = {}, {}, true
for i, key in ipairs(KEYS) do
	local arg = 6 * i - 4
	local how = algorithms[ARGV[arg]]
	local t = {
		key = key,
		how = how,
		count = tonumber(ARGV[arg + 1]),
		window = tonumber(ARGV[arg + 2]),
		capacity = tonumber(ARGV[arg + 3]),
		cost = tonumber(ARGV[arg + 4]),
		state = redis.pcall('GETRANGE', key, 0, PEEK - 1),
	}
	local wrong
	if type(t.state) == 'table' then
		wrong = 'cannot be read: ' .. t.state.err
	elseif seen[key] then
		wrong = 'is there twice'
	elseif not how then
		wrong = 'is asked for an unknown algorithm'
	elseif t.state ~= '' and t.state:sub(1, 2) ~= how[1] then
		wrong = 'holds something else than a count of this algorithm'
	else
		wrong = how[2](t)
	end
	if wrong then
		return redis.error_reply('BADSTATE key ' .. key .. ' ' .. wrong)
	end
	seen[key], tiers[i] = true, t
	pass = pass and (t.admits or ARGV[arg + 5] == '1')
end

local reply = { pass and 1 or 0 }
for _, t in ipairs(tiers) do
	if pass and t.admits then
		t.how[3](t)
	elseif t.mend then
		t.how[4](t)
	end
	local n = #reply
	reply[n + 1] = t.admits and 1 or 0
	reply[n + 2] = t.left
	reply[n + 3] = t.wait
	reply[n + 4] = t.reset
end
return reply
