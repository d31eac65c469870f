"""Color transfer against other methods, on photographs of installed packages: `python -m benchmarks.color`.

`contenders` has the methods; `__main__` times and judges them.
"""
