-- Employees by department and branch.
SELECT * FROM (
  SELECT coalesce(department, 'none') AS department, coalesce(branch, 'none') AS branch, sum(employees) AS employees
  FROM head_count
  GROUP BY ALL
)
ORDER BY sum(employees) OVER (PARTITION BY department) DESC, department, branch
