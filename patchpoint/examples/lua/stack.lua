-- Without hooks: recursion that moves the stack, from every kind of call. Both builds print the same.
local function deep(n, ...) if n == 0 then return ... end local a, b, c, d = n, n + 1, n + 2, n + 3; local r = {deep(n - 1, a, b, c, d)}; return a + (r[1] or 0), b, c, d end
print(deep(5000))
local mt = {}; mt.__index = function(t, k) if k == 0 then return 1 end return t[k - 1] + 1 end
mt.__add = function(a, b) return 7 end; mt.__concat = function(a, b) return "c" end; mt.__lt = function() return true end; mt.__le = mt.__lt; mt.__eq = mt.__lt
mt.__call = function(self, ...) return select("#", ...) end; mt.__close = function() deep(200) end; mt.__gc = function() deep(100) end
local t = setmetatable({}, mt)
print(t[150], t + 1, t .. "x", t < t, t <= t, t == setmetatable({}, mt), t(1, 2, 3))
print((pcall(deep, 190000)))
local co = coroutine.wrap(function(...) local s = 0; for i = 1, 100 do s = s + #tostring(deep(i * 10)); coroutine.yield(s) end return "end" end)
local last; for i = 1, 100 do last = co() end; print(last, co())
do local x <close> = t; local y <close> = t end
local function gen(n) return function(_, i) if i < n then deep(50 * i); return i + 1 end end, nil, 0 end
local s = 0; for i in gen(60) do s = s + i end; print(s)
collectgarbage("generational"); for i = 1, 20000 do setmetatable({}, i % 500 == 0 and mt or nil) end; collectgarbage("incremental")
local words = {}; for i = 1, 2000 do words[i] = (i * 7919) % 2003 end; table.sort(words, function(a, b) deep(a % 7 * 20); return a < b end); print(words[1], words[2000])
print(pcall(error, {1})); print(select(2, xpcall(function() local x = nil; return x.y end, debug.traceback)))
print((("x"):rep(1000):gsub("x", function(c) deep(30); return "yy" end)):len())
print(load("return ...")(1, 2), require("string") == string, math.type(3 // 0.0))
