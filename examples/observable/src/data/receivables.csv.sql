-- The ten customers that owe the most, by time overdue. Customers with the same name get their number.
WITH customers AS (
  SELECT *, CASE WHEN count(*) OVER (PARTITION BY customer) > 1 THEN customer || ' (' || customer_id || ')' ELSE customer END AS label
  FROM receivables_ageing
), top AS (
  SELECT label, open_amount, not_due AS "not due", days_1_30 AS "1 to 30 days", days_31_60 AS "31 to 60 days", days_61_90 AS "61 to 90 days", days_over_90 AS "over 90 days"
  FROM customers ORDER BY open_amount DESC, customer_id LIMIT 10
)
SELECT label AS customer, age, amount
FROM top UNPIVOT (amount FOR age IN ("not due", "1 to 30 days", "31 to 60 days", "61 to 90 days", "over 90 days"))
WHERE amount > 0
ORDER BY open_amount DESC, customer
