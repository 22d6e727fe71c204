--[[
store/take.lua - one decision over all tiers of a request, counted in Redis.

First every tier is looked at without writing; then either all that admit are
charged or none. store/rate.c does the same sums in C, and tests/contract holds the
two together: change both.

KEYS     one key a tier, all different.
ARGV[1]  now in microseconds, or '' for the clock of Redis.
then for each key seven:
         algorithm  0 sliding_window, 1 token_bucket, 2 fixed_window,
                    3 sliding_counter, 4 leaky_bucket
         count      events per window
         window     in microseconds, below 2^48
         capacity   of a bucket; count for the others
         cost       of this request, at least 1
         shadow     1: changes no outcome, charged only if it admits and all pass
         max_delay  of a leaky bucket, in microseconds; 0 for the others

Reply    integers: admitted (1: every tier that is no shadow admits), then for each
         key: admitted, remaining, wait_us (until this cost fits; 0 when admitted),
         reset_us (until the state equals never seen), hold_us (admitted by a leaky
         bucket: until its turn). Remaining and reset are as the decision leaves them.
Errors   a key of another type, or holding what this script has not written: nothing
         is then charged anywhere.

A refusal writes nothing, but for stamps further ahead of the clock than a window (or
a full bucket takes to drain): they are moved so that the newest is now, whatever the
outcome. Less far ahead, the newest stamp stands for now. Each key's lifetime is set
in the call that writes it: until its state equals never seen.

Numbers stay below 2^53, so they are exact, if capacity * window does for a bucket and
count * window for a counter. Needs Redis 5.0 (replication by effect). Not for a
cluster: the keys of one request lie in several slots.

State, integers big-endian:
   sliding window  'w1' base:8 newest:8 first:4 n:4, then a ring of offsets from base,
                   6 each
   bucket          'b1' or, leaky, 'l1' stamp:8 used:8 unit:8, used in 1/unit of a token
                   as of stamp
   fixed window    'f1' stamp:8 used:8, used in the window of the stamp
   counter         'c1' stamp:8 used:8 before:8 unit:8, used and before in the window of
                   the stamp and the one before it, windows being unit long

Redis makes the functions below anew in each run, which costs about as much as calling
them: those of an algorithm are made when a tier asks for it, all others never.
--]]
local call, pack, unpack = redis.call, struct.pack, struct.unpack
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max

local HEAD = 26 -- bytes before the ring, and of a bucket
local SMALL = 64 -- so many events are read and written whole, as cheap as one
local PEEK = HEAD + 6 * SMALL
local NEAR = 6 * 16
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

-- The functions of an algorithm: { tag of its state, look, charge, mend }.
local function make(algorithm)
	local function lifetime(ends)
		-- One more: Redis counts from the start of the millisecond before our clock.
		return max(ceil((ends - now) / 1000), 0) + 1
	end

	if algorithm == '0' then
		-- The moment of event i, from 0 for the oldest. Neighbours are read with it: they
		-- are asked for next.
		local function moment(t, i)
			local p = HEAD + 6 * ((t.first + i) % t.room)
			if p + 6 <= #t.state then
				return t.base + unpack('>I6', t.state, p + 1)
			end
			if not t.near or p < t.near_at or p + 6 > t.near_at + #t.near then
				t.near, t.near_at = call('GETRANGE', t.key, p, p + NEAR - 1), p
			end
			return t.base + unpack('>I6', t.near, p - t.near_at + 1)
		end

		-- How many no longer count. Gallops from the oldest: usually few have gone since
		-- the last charge.
		local function expired(t)
			local gone = t.at - t.window
			if t.newest <= gone then
				return t.n
			end
			local lo, hi, probe = 0, t.n - 1, 0
			while probe < hi and moment(t, probe) <= gone do
				lo = probe + 1
				probe = 2 * probe + 1
			end
			hi = min(hi, probe)
			while lo < hi do
				local mid = floor((lo + hi) / 2)
				if moment(t, mid) <= gone then
					lo = mid + 1
				else
					hi = mid
				end
			end
			return lo
		end

		local function read(t)
			if #t.state < HEAD then
				return 'holds a broken window'
			end
			local size = #t.state < PEEK and #t.state or call('STRLEN', t.key)
			local _, base, newest, first, n = unpack('>c2i8i8I4I4', t.state)
			t.room, t.base, t.newest = (size - HEAD) / 6, base, newest
			t.first, t.n = first, n
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
			t.expired = expired(t)
			t.live = n - t.expired
		end

		local function look(t)
			t.live = 0
			if t.count > LOG_MAX or t.window >= OFFSETS then
				return 'is asked for a window beyond what is counted'
			end
			local wrong = t.state ~= '' and read(t)
			if wrong then
				return wrong
			end
			t.left = max(t.count - t.live, 0)
			t.reset = t.live > 0 and t.newest + t.window - t.at or 0
			t.admits = t.cost <= t.left
			if t.admits then
				return
			elseif t.cost > t.count then
				t.wait = t.window
			else
				local last = t.expired + t.live + t.cost - t.count - 1
				t.wait = moment(t, last) + t.window - t.at
			end
		end

		local function head(t)
			return pack('>c2i8i8I4I4', 'w1', t.base, t.newest, t.first, t.n)
		end

		local function mend(t)
			call('SETRANGE', t.key, 0, head(t))
			call('PEXPIRE', t.key, lifetime(t.newest + t.window))
		end

		-- The bytes of the live events, oldest first.
		local function live(t)
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

		-- Writes the state anew, with as much room as is good for it.
		local function rewrite(t, need)
			local events, room = '', need
			if t.live == 0 then
				t.base = t.at
			else
				events = live(t)
				if t.at - t.base >= OFFSETS then
					local anew, base = {}, t.base + unpack('>I6', events)
					for i = 1, t.live do
						anew[i] = pack('>I6',
							t.base + unpack('>I6', events, 6 * i - 5) - base)
					end
					events, t.base = table.concat(anew), base
				end
			end
			if need > SMALL then
				room = min(need + floor(need / 8), t.count)
			end
			t.newest, t.first, t.n = t.at, 0, need
			call('SET', t.key, head(t) .. events .. pack('>I6', t.at - t.base):rep(t.cost)
				.. ('\0'):rep(6 * (room - need)), 'PX', lifetime(t.at + t.window))
		end

		local function charge(t)
			local need = t.live + t.cost
			t.left, t.reset = t.left - t.cost, t.window
			if need <= SMALL or not t.room or need > t.room
				or t.room > need + floor(need / 4) + 16 or t.at - t.base >= OFFSETS then
				return rewrite(t, need)
			end
			local p = (t.first + t.n) % t.room
			local n = min(t.cost, t.room - p)
			local event = pack('>I6', t.at - t.base)
			call('SETRANGE', t.key, HEAD + 6 * p, event:rep(n))
			if n < t.cost then
				call('SETRANGE', t.key, HEAD, event:rep(t.cost - n))
			end
			t.newest, t.first, t.n = t.at, (t.first + t.expired) % t.room, need
			mend(t)
		end

		return { 'w1', look, charge, mend }
	end

	-- a / b is exact when rounded to a whole number, and so is a % b: a is below 2^53, so
	-- the quotient lies further from the next whole number than a double can err.

	if algorithm == '1' or algorithm == '4' then
		local leaky = algorithm == '4'
		local tag = leaky and 'l1' or 'b1'

		-- What is used up at the moment looked at, and what is wrong.
		local function read(t, full)
			if #t.state ~= HEAD then
				return 0, 'holds a broken bucket'
			end
			local _, stamp, used, unit = unpack('>c2i8i8i8', t.state)
			if stamp <= -EXACT or stamp >= EXACT or used < 1 or used >= EXACT or unit < 1
				or unit >= EXACT then
				return 0, 'holds a broken bucket'
			end
			t.used, t.unit = used, unit
			if unit ~= t.window then
				used = min(ceil(used / unit), floor((EXACT - 1) / t.window)) * t.window
			end
			t.ends = stamp + ceil(used / t.count)
			local ahead = stamp - now
			if ahead > full then
				stamp, t.ends, t.mend = now, t.ends - ahead, true
			elseif ahead > 0 then
				t.at = stamp
			end
			-- Compared before it is multiplied, so the product stays below used.
			local elapsed = t.at - stamp
			return elapsed >= ceil(used / t.count) and 0 or used - elapsed * t.count
		end

		-- A leaky bucket also looks for a turn that is not too late, and leaves no more
		-- than will have one.
		local function look_for_turn(t, used, full)
			local turn = ceil(used / t.count)
			if turn > t.max_delay then
				t.admits = false
				if t.cost <= t.capacity then
					t.wait = max(t.wait, turn - t.max_delay)
				end
			elseif t.admits then
				t.hold = turn
			end
			if t.max_delay < full then
				local within = t.max_delay * t.count
				t.left = used > within and 0
					or min(t.left, floor((within - used) / t.window) + 1)
			end
		end

		local function look(t)
			t.capacity, t.max_delay = ARGV[t.arg + 3] + 0, ARGV[t.arg + 6] + 0
			local capacity, used, wrong = t.capacity * t.window, 0
			if capacity >= EXACT or t.window >= OFFSETS then
				return 'is asked for a bucket beyond what is counted'
			end
			local full = ceil(capacity / t.count)
			if t.state ~= '' then
				used, wrong = read(t, full)
				if wrong then
					return wrong
				end
			end
			local units, free = 0, capacity - used
			if t.cost > t.capacity then
				t.wait = full
			else
				units = t.cost * t.window
				t.admits = units <= free
				t.wait = t.admits and 0 or ceil((units - free) / t.count)
			end
			t.left = max(floor(free / t.window), 0)
			t.reset = ceil(used / t.count)
			t.after = used + units
			if leaky then
				look_for_turn(t, used, full)
			end
		end

		local function mend(t)
			call('SET', t.key, pack('>c2i8i8i8', tag, t.at, t.used, t.unit), 'PX',
				lifetime(t.ends))
		end

		local function charge(t)
			t.left, t.reset = max(t.left - t.cost, 0), ceil(t.after / t.count)
			t.used, t.unit, t.ends = t.after, t.window, t.at + t.reset
			mend(t)
		end

		return { tag, look, charge, mend }
	end

	-- Of windows that begin at multiples of their length: moves a stamp too far ahead, says
	-- how many windows lie between its own and that of the moment looked at.
	local function settle(t)
		local ahead = t.stamp - now
		if ahead > t.window then
			t.stamp, t.mend = now, true
		elseif ahead > 0 then
			t.at = t.stamp
		end
		return floor((t.at - (t.stamp - t.stamp % t.window)) / t.window)
	end

	if algorithm == '2' then
		local function look(t)
			t.live = 0
			if t.count >= EXACT or t.window >= OFFSETS then
				return 'is asked for a window beyond what is counted'
			end
			if t.state ~= '' then
				local _
				if #t.state ~= 18 then
					return 'holds a broken window'
				end
				_, t.stamp, t.used = unpack('>c2i8i8', t.state)
				if t.stamp <= -EXACT or t.stamp >= EXACT or t.used < 1
					or t.used >= EXACT then
					return 'holds a broken window'
				end
				t.live = settle(t) == 0 and t.used or 0
			end
			t.ends = t.window - t.at % t.window
			t.left = max(t.count - t.live, 0)
			t.reset = t.live > 0 and t.ends or 0
			t.admits = t.cost <= t.left
			if not t.admits then
				t.wait = t.cost <= t.count and t.ends or t.window
			end
		end

		local function mend(t)
			call('SET', t.key, pack('>c2i8i8', 'f1', t.stamp, t.used), 'PX',
				lifetime(t.stamp - t.stamp % t.window + t.window))
		end

		local function charge(t)
			t.left, t.reset = t.left - t.cost, t.ends
			t.stamp, t.used = t.at, t.live + t.cost
			mend(t)
		end

		return { 'f1', look, charge, mend }
	end

	if algorithm == '3' then
		-- What this window has taken and the one before had.
		local function read(t)
			local _
			if #t.state ~= 34 then
				return 0, 0, 'holds a broken counter'
			end
			_, t.stamp, t.used, t.before, t.unit = unpack('>c2i8i8i8i8', t.state)
			if t.stamp <= -EXACT or t.stamp >= EXACT or t.used < 1 or t.used >= EXACT
				or t.before < 0 or t.before >= EXACT or t.unit < 1 or t.unit >= OFFSETS then
				return 0, 0, 'holds a broken counter'
			end
			local past, used, before = settle(t), t.used, t.before
			if t.unit ~= t.window then
				used = used + ceil(before * (t.unit - t.stamp % t.unit) / t.unit)
				used, before = min(used, floor((EXACT - 1) / t.window)), 0
			end
			if past == 0 then
				return used, before
			end
			return 0, past == 1 and used or 0
		end

		-- How far into a window a cost fits that finds free units but for what fades: as
		-- soon as that weighs no more.
		local function fades_at(t, fading, free)
			return max(t.window - floor(free / fading), 0)
		end

		local function look(t)
			local used, before, wrong, limit = 0, 0, nil, t.count * t.window
			if limit >= EXACT or t.window >= OFFSETS then
				return 'is asked for a counter beyond what is counted'
			end
			if t.state ~= '' then
				used, before, wrong = read(t)
				if wrong then
					return wrong
				end
			end
			local into = t.at % t.window
			local free = limit - (used * t.window + before * (t.window - into))
			t.left = max(floor(free / t.window), 0)
			t.reset = used > 0 and 2 * t.window - into
				or before > 0 and t.window - into or 0
			t.after, t.faded, t.ends = used + t.cost, before, 2 * t.window - into
			if t.cost > t.count then
				t.wait = t.window
			elseif t.cost * t.window <= free then
				t.admits = true
			-- Weights only fall while nobody adds: the cost fits in this window if its own
			-- events leave room, else in the next, where they fade, or at its very end.
			elseif t.after <= t.count then
				t.wait = fades_at(t, before, (t.count - t.after) * t.window) - into
			else
				t.wait = t.window - into + fades_at(t, used, (t.count - t.cost) * t.window)
			end
		end

		local function mend(t)
			call('SET', t.key,
				pack('>c2i8i8i8i8', 'c1', t.stamp, t.used, t.before, t.unit), 'PX',
				lifetime(t.stamp - t.stamp % t.window + 2 * t.window))
		end

		local function charge(t)
			t.left, t.reset = t.left - t.cost, t.ends
			t.stamp, t.used, t.before, t.unit = t.at, t.after, t.faded, t.window
			mend(t)
		end

		return { 'c1', look, charge, mend }
	end
end

if #ARGV ~= 1 + 7 * #KEYS then
	return redis.error_reply('BADSTATE wrong number of arguments')
end

local tiers, made, seen, pass = {}, {}, {}, true
for i, key in ipairs(KEYS) do
	local arg = 7 * i - 5
	local how = made[ARGV[arg]]
	if not how then
		how = make(ARGV[arg])
		made[ARGV[arg]] = how
	end
	local state
	if ARGV[arg] == '0' then -- of a long window only the beginning
		state = redis.pcall('GETRANGE', key, 0, PEEK - 1)
	else
		state = redis.pcall('GET', key) or ''
	end
	-- All that will be set is named here, which spares the table from growing.
	local t = {
		key = key,
		how = how,
		count = ARGV[arg + 1] + 0,
		window = ARGV[arg + 2] + 0,
		cost = ARGV[arg + 4] + 0,
		arg = arg,
		state = state,
		at = now,
		admits = false,
		left = 0,
		wait = 0,
		reset = 0,
		hold = 0,
		used = 0,
		unit = 0,
		ends = 0,
		after = 0,
		mend = false,
		capacity = 0,
		max_delay = 0,
	}
	local wrong
	if type(state) == 'table' then
		wrong = 'cannot be read: ' .. state.err
	elseif seen[key] then
		wrong = 'is there twice'
	elseif not how then
		wrong = 'is asked for an unknown algorithm'
	elseif state ~= '' and state:sub(1, 2) ~= how[1] then
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

local reply, n = { pass and 1 or 0 }, 1
for _, t in ipairs(tiers) do
	if pass and t.admits then
		t.how[3](t)
	elseif t.mend then
		t.how[4](t)
	end
	reply[n + 1] = t.admits and 1 or 0
	reply[n + 2] = t.left
	reply[n + 3] = t.wait
	reply[n + 4] = t.reset
	reply[n + 5] = t.hold
	n = n + 5
end
return reply
