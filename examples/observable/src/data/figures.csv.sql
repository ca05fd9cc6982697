-- The headline numbers, in one row. "lists" are the lists that the page uses, and "proven" those whose last reading is proven.
WITH certificates AS (
  SELECT DISTINCT ON (stream) stream, verdict, "at" FROM _penstock_certificates
  WHERE stream IN ('sales.invoices', 'products.items', 'crm.deals', 'support.tickets', 'hr.employees', 'hr.branches', 'hr.departments')
  ORDER BY stream, "at" DESC
)
SELECT
  (SELECT coalesce(sum(open_amount), 0) FROM receivables_ageing) AS receivables,
  (SELECT coalesce(sum(open_amount - not_due), 0) FROM receivables_ageing) AS overdue,
  (SELECT coalesce(sum(worth), 0) FROM pipeline_by_stage WHERE coalesce(status, '') NOT IN ('Won', 'Loss')) AS pipeline,
  (SELECT coalesce(sum(tickets), 0) FROM ticket_backlog) AS tickets,
  (SELECT count(*) FROM certificates) AS lists,
  (SELECT count(*) FROM certificates WHERE verdict = 'proven') AS proven,
  (SELECT strftime(min("at"), '%Y-%m-%dT%H:%M:%SZ') FROM certificates) AS read_at,
  CURRENT_DATE AS today
