-- Every event of every kind of hook: both builds print the same.
local out = {}
local function log(...) out[#out+1] = table.concat({...}, " ") end
local n = 0
debug.sethook(function(e, l) n = n + 1; log(e, tostring(l)) end, "crl")
local function va(...) local a, b = ...; return select("#", ...), a, b end
va(1, 2, 3)
for i = 1, 3 do local x = i * 2 end
string.rep("x", 3)
local function tail(n) if n == 0 then return 1 end return tail(n - 1) end
tail(3)
debug.sethook()
log(n)
local c = 0
debug.sethook(function() c = c + 1 end, "", 100)
for i = 1, 10000 do end
debug.sethook()
log(c)
print(table.concat(out, "\n"))
