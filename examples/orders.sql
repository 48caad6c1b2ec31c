-- Run by sql.yaml: bills orders with 19 percent tax.
CREATE TABLE orders (id BIGINT, amount BIGINT) WITH (
  'connector' = 'datagen', 'rows-per-second' = '5',
  'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '1000000',
  'fields.amount.kind' = 'sequence', 'fields.amount.start' = '1', 'fields.amount.end' = '1000000'
);
CREATE TABLE bills (id BIGINT, amount BIGINT) WITH ('connector' = 'print');
INSERT INTO bills SELECT id, amount * 119 / 100 FROM orders;
