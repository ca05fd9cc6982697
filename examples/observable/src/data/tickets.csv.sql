-- Tickets that are not closed.
SELECT * FROM (
  SELECT lower(status) AS status, coalesce(category, 'none') AS category, sum(tickets) AS tickets
  FROM ticket_backlog
  GROUP BY ALL
)
ORDER BY sum(tickets) OVER (PARTITION BY status) DESC, status, category
