-- bench.lua NAME SIZE: one of the programs that measure.sh measures; its work grows with SIZE, and it prints a checksum.
local programs = {}

function programs.loop(size)
  local sum = 0
  for i = 1, size do sum = sum + i % 7 * 3 end
  return sum
end

function programs.fib(size)
  local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
  local sum = 0
  for _ = 1, size do sum = sum + fib(8) end
  return sum
end

function programs.sieve(size)
  local count = 0
  for _ = 1, size do
    local composite = {}
    for i = 2, 100 do
      if not composite[i] then
        count = count + 1
        for j = i * i, 100, i do composite[j] = true end
      end
    end
  end
  return count
end

function programs.bodies(size)
  local bodies = {}
  for i = 1, 4 do bodies[i] = {x = i, y = i * i, vx = 0.0, vy = 0.0, mass = 1.0 / i} end
  for _ = 1, size do
    for i = 1, 4 do
      local a = bodies[i]
      for j = i + 1, 4 do
        local b = bodies[j]
        local dx, dy = a.x - b.x, a.y - b.y
        local force = 0.001 / (dx * dx + dy * dy + 0.1)
        a.vx, a.vy = a.vx - dx * b.mass * force, a.vy - dy * b.mass * force
        b.vx, b.vy = b.vx + dx * a.mass * force, b.vy + dy * a.mass * force
      end
    end
    for i = 1, 4 do
      local a = bodies[i]
      a.x, a.y = a.x + a.vx, a.y + a.vy
    end
  end
  return string.format("%.12f", bodies[1].x)
end

function programs.calls(size)
  local sum, floor = 0, math.floor
  for i = 1, size do sum = sum + floor(i / 3) end
  return sum
end

function programs.strings(size)
  local words = {}
  for i = 1, size do words[#words + 1] = ("%d:%s"):format(i % 10, ("ab"):rep(i % 5)) end
  table.sort(words)
  local text = table.concat(words, ","):gsub("%d+", function(n) return n + 1 end)
  return #text
end

print(programs[arg[1]](math.tointeger(arg[2])))
