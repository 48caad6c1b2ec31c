"""Run by python.yaml: bills orders with 19 percent tax, which a Python function adds."""

from pyflink.table import DataTypes, EnvironmentSettings, TableEnvironment
from pyflink.table.udf import udf


@udf(result_type=DataTypes.BIGINT())
def with_tax(amount):
    return amount * 119 // 100


tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
tables.create_temporary_function("with_tax", with_tax)
tables.execute_sql("""
    CREATE TABLE orders (id BIGINT, amount BIGINT) WITH (
      'connector' = 'datagen', 'rows-per-second' = '5',
      'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '1000000',
      'fields.amount.kind' = 'sequence', 'fields.amount.start' = '1', 'fields.amount.end' = '1000000'
    )""")
tables.execute_sql("CREATE TABLE bills (id BIGINT, amount BIGINT) WITH ('connector' = 'print')")
tables.execute_sql("INSERT INTO bills SELECT id, with_tax(amount) FROM orders")
